"""The kinds of record that a page can show: one file each."""
