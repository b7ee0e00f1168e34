# SPDX-License-Identifier: Apache-2.0
"""What ``benchmarks/gpu.py`` publishes: files of known names, at most eight."""

PUBLISHED = {"summary.md", "results.jsonl", "log.txt", "clocks.csv", "raw.tar.gz"}
