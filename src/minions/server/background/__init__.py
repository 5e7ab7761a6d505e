"""What a server does beside answering: splitting, finishing, signs of life."""
