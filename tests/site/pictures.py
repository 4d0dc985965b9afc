"""Takes the pictures of README.md and docs/ in Chromium: the overview, a kernel's page, and the roofline.

    python -m tests.site.pictures SITE FOLDER

SITE is a site that `kv report` wrote. FOLDER gets the pictures. `make pictures` does both from the history in results/.
"""

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.site.browser import ARGUMENTS, executable, show

PICTURES = {  # file: page, its address, height in px
    "dashboard.png": ("index.html", "", 900),
    "trend.png": ("kernel-quantize_int8-Cpu.html", "case=float32-10M", 800),
    "roofline.png": ("roofline.html", "", 800),
}


def take(site: Path, folder: Path) -> None:
    """Write the pictures of a site."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable("chromium"), args=ARGUMENTS)
        for name, (page, address, height) in PICTURES.items():
            tab = browser.new_page(viewport={"width": 1200, "height": height})
            show(tab, site, page, address)
            tab.screenshot(path=folder / name)
        browser.close()


if __name__ == "__main__":
    take(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
