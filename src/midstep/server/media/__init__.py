"""What runs logged beside numbers: lists, pictures, texts, histograms, tables."""
