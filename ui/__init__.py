"""What the pages share: state in the URL, charts, language."""
