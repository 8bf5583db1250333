"""Checking a JSONL corpus before training: every line one JSON object with a text; a file of any size in bounded memory."""

from storage.reading.corpus.judge import KINDS, LIMIT, CorpusReport, Problem, check

__all__ = ["KINDS", "LIMIT", "CorpusReport", "Problem", "check"]
