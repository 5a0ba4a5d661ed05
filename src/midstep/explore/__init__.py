"""What a training does with single samples: the loss of each, and its share of the batch's loss."""
