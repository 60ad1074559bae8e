"""The laws an audit checks, a small file each."""
