"""What differs between kinds of task: how they are encoded, trained, scored and written down."""
