"""The working tree live: implementations side by side."""
