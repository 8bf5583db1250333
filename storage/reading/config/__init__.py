"""The configuration that a log prints: arguments, files, commands, versions, sizes; flat, with the names as printed.

scanner = ConfigScanner()
scanner.feed(block, first_line)   # whole lines of UTF-8
scanner.result()                  # {"lr": 0.0005, "Model/hidden_size": 768, "seed": 42, …}
blocks(scanner.result())          # the four blocks environment, data, training, metrics
"""

from storage.reading.config.four import BLOCKS, blocks
from storage.reading.config.scanner import ConfigScanner

__all__ = ["BLOCKS", "ConfigScanner", "blocks"]
