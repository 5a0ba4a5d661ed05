"""What runs logged besides numbers: lists, pictures, texts, histograms, tables."""
