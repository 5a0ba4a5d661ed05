"""One step, with settings that Hydra composes."""

import hydra
import torch


@hydra.main(version_base=None, config_path=None, config_name="config")
def main(cfg):
    model = torch.nn.Linear(cfg.model.width, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=cfg.lr)
    model(torch.ones(2, cfg.model.width)).sum().backward()
    optimizer.step()


if __name__ == "__main__":
    main()
