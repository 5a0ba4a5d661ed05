"""Small models: parts of autoencoders first."""
