"""What a step shows: batch, step data, forces, cosines."""
