"""One static HTML page from the records that runs leave behind; free of torch."""
