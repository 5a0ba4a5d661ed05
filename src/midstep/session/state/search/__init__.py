"""What a value or the code of the user refers to. Nothing of the user's is called."""
