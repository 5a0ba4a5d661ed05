"""What a loop logs beside numbers: pictures, text, histograms and tables."""
