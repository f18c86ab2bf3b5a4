#!/usr/bin/env python3
"""All public headers compile as C++20 under g++, which embedders use.  `tools/headers_gxx.py CXX`"""
import pathlib
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent

roots = sorted((TOP / "src").glob("*/include"))
headers = [h.relative_to(root) for root in roots for h in sorted(root.rglob("*.h"))]
if not headers:
    sys.exit("headers_gxx: found no public header")
source = "".join(f'#include "{header}"\n' for header in headers)
done = subprocess.run([sys.argv[1], "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                       *[f"-I{root}" for root in roots], "-x", "c++", "-"],
                      input=source, text=True)
print(f"headers_gxx: {len(headers)} headers")
sys.exit(done.returncode)
