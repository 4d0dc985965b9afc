"""The dashboard: data files, pages, charts, writer."""
