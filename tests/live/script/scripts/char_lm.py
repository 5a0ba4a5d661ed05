"""A language model on characters: own batches, fetched ahead; accumulation; own learning rates."""

import math

import torch
from known import Known
from torch import nn

batch_size, block_size, accumulate, max_iters = 4, 8, 2, 5
learning_rate, name = 1e-2, "chars"
config = {"batch_size": batch_size, "learning_rate": learning_rate, "name": name}

torch.manual_seed(1)
known = Known()
text = torch.randint(11, (200,))


def get_batch():
    starts = torch.randint(len(text) - block_size, (batch_size,))
    x = torch.stack([text[i : i + block_size] for i in starts.tolist()])
    y = torch.stack([text[i + 1 : i + 1 + block_size] for i in starts.tolist()])
    return x, y


class Chars(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        self.head = nn.Linear(16, 11)

    def forward(self, idx, targets=None):
        logits = self.head(self.embed(idx))
        return logits, nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def configure_optimizer(self, lr):
        return torch.optim.AdamW(self.parameters(), lr=lr, weight_decay=0.1)


model = Chars()
optimizer = model.configure_optimizer(learning_rate)
X, Y = get_batch()
for it in range(max_iters):
    lr = learning_rate * 0.5 * (1 + math.cos(math.pi * it / max_iters))
    for group in optimizer.param_groups:
        group["lr"] = lr
    if it % 2 == 0:
        with torch.no_grad():
            model(*get_batch())
    total, trained_on = 0.0, []
    for _micro_step in range(accumulate):
        logits, loss = model(X, Y)
        loss = loss / accumulate
        trained_on.append((X, Y))
        X, Y = get_batch()
        loss.backward()
        total += loss.item()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    batch = [torch.cat(parts) for parts in zip(*trained_on, strict=True)]
    known.step(model.parameters(), loss=total, batch=batch, lr=lr)
known.write(layers=["embed.weight", "head.weight", "head.bias"])
