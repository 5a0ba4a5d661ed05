"""What a loop logs besides numbers: pictures, text, histograms and tables."""
