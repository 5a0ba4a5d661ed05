"""A trainer with callbacks, an iterator that is begun again, and scalars in TensorBoard."""

import torch
from known import Known
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset
from torch.utils.tensorboard import SummaryWriter


class Trainer:
    def __init__(self, config, model, dataset):
        self.config, self.model, self.dataset = config, model, dataset
        self.callbacks = []

    def run(self):
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=self.config["rate"])
        sampler = RandomSampler(self.dataset, replacement=True, num_samples=10)
        loader = DataLoader(self.dataset, sampler=sampler, batch_size=4)
        data_iter = iter(loader)
        for self.step in range(6):
            try:
                batch = next(data_iter)
            except StopIteration:
                data_iter = iter(loader)
                batch = next(data_iter)
            x, y = batch
            self.loss = nn.functional.mse_loss(self.model(x), y)
            self.model.zero_grad(set_to_none=True)
            self.loss.backward()
            self.optimizer.step()
            for callback in self.callbacks:
                callback(self, batch)


torch.manual_seed(6)
known = Known()
dataset = TensorDataset(torch.randn(20, 3), torch.randn(20, 2))
trainer = Trainer({"rate": 3e-3, "width": 2}, nn.Linear(3, 2), dataset)
writer = SummaryWriter("tensorboard")


def note(trainer, batch):
    logged = trainer.step / 10
    writer.add_scalar("train/progress", logged, trainer.step)
    writer.add_scalar("learning_rate", 9.0, trainer.step)
    loss = trainer.loss
    more = {"train/progress": logged, "tensorboard/lr": 9.0}
    known.step(trainer.model.parameters(), loss=loss, batch=batch, lr=3e-3, **more)


trainer.callbacks.append(note)
trainer.run()
writer.close()
known.write(layers=["weight", "bias"])
