"""Exports policies of stable-baselines3, d3rlpy and rsl_rl, each as its documents say.

Needs the packages: see README.md.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any

import comparison
import d3rlpy
import gymnasium as gym
import numpy as np
import torch
from rsl_rl.models import MLPModel, RNNModel
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
from tensordict import TensorDict
from torch import Tensor, nn

DYNAMIC = ({0: "batch"},)


class Policy(nn.Module):
    """As in the documents of stable-baselines3, for PPO and A2C."""

    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, observation: Any) -> Any:
        return self.policy(observation, deterministic=True)


class Actor(nn.Module):
    """As in the documents of stable-baselines3, for SAC, TD3 and DDPG."""

    def __init__(self, actor: Any, **options: Any) -> None:
        super().__init__()
        self.actor, self.options = actor, options

    def forward(self, observation: Tensor) -> Any:
        return self.actor(observation, **self.options)


class Prediction(nn.Module):
    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, observation: Tensor) -> Any:
        return self.policy._predict(observation, deterministic=True)


class World(gym.Env):
    """An environment of these spaces, for the shapes of a policy."""

    def __init__(self, observation_space: gym.Space, action_space: gym.Space) -> None:
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, **_: Any) -> Any:
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 0.0, False, False, {}


VECTOR = gym.spaces.Box(-1, 1, (4,))
IMAGE = gym.spaces.Box(0, 255, (3, 84, 84), np.uint8)
BOTH = gym.spaces.Dict(a=VECTOR, b=gym.spaces.Discrete(5))
CART, PENDULUM = "CartPole-v1", "Pendulum-v1"
SHORT: dict[str, Any] = {"n_steps": 4, "batch_size": 2}  # small buffers


def vectors(width: int) -> list[comparison.Example]:
    return [(torch.rand(batch, width),) for batch in (2, 5, 1)]


def both(batch: int) -> comparison.Example:
    return ({"a": torch.rand(batch, 4), "b": torch.arange(batch) % 5},)


def images(batch: int) -> comparison.Example:
    return ((torch.rand(batch, 3, 84, 84) * 255).to(torch.uint8),)


def of_stable_baselines() -> dict[str, comparison.Case]:
    cases: dict[str, comparison.Case] = {}

    def add(name: str, make: Any, examples: Any, dynamic: Any = DYNAMIC) -> None:
        cases[f"stable-baselines3 {name}"] = (lambda: make().eval()), examples, dynamic

    for kind in (PPO, A2C):
        name = kind.__name__
        add(f"{name} discrete", lambda k=kind: Policy(k("MlpPolicy", CART).policy), vectors(4))
        add(f"{name} box", lambda k=kind: Policy(k("MlpPolicy", PENDULUM).policy), vectors(3))
    binary = World(VECTOR, gym.spaces.MultiBinary(3))
    several = World(BOTH, gym.spaces.MultiDiscrete([3, 4]))
    pictures = World(IMAGE, gym.spaces.Discrete(4))
    add("PPO binary", lambda: Policy(PPO("MlpPolicy", binary).policy), vectors(4))
    add("PPO gSDE", lambda: Policy(PPO("MlpPolicy", PENDULUM, use_sde=True).policy), vectors(3))
    add(
        "PPO images",
        lambda: Policy(PPO("CnnPolicy", pictures, **SHORT).policy),
        [images(2), images(3)],
    )
    add(
        "PPO dict",
        lambda: Policy(PPO("MultiInputPolicy", several, **SHORT).policy),
        [both(2), both(3)],
        ({"a": {0: "batch"}, "b": {0: "batch"}},),
    )
    add("DQN", lambda: Prediction(DQN("MlpPolicy", CART).policy), vectors(4))
    add("DQN's network", lambda: DQN("MlpPolicy", CART).policy.q_net, vectors(4))
    for name, options in {"SAC": {}, "SAC gSDE": {"use_sde": True}}.items():
        add(
            name,
            lambda o=options: Actor(
                SAC("MlpPolicy", PENDULUM, **o).policy.actor, deterministic=True
            ),
            vectors(3),
        )
    for kind in (TD3, DDPG):
        add(kind.__name__, lambda k=kind: Actor(k("MlpPolicy", PENDULUM).policy.actor), vectors(3))
    return cases


def of_rsl_rl() -> dict[str, comparison.Case]:
    observations = TensorDict({"policy": torch.zeros(2, 8)}, batch_size=[2])
    options: dict[str, Any] = {"obs_normalization": True, "hidden_dims": [16, 16]}

    def model(kind: type, **more: Any) -> Any:
        groups = {"actor": ["policy"]}
        return kind(observations, groups, "actor", 3, **options, **more).as_onnx(verbose=False)

    def examples(make: Any) -> list[comparison.Example]:
        inputs = make().get_dummy_inputs()
        return [tuple(torch.rand_like(each) for each in inputs) for _ in range(2)]

    makers = {
        "MLP": lambda: model(MLPModel).eval(),
        "LSTM": lambda: model(RNNModel, rnn_hidden_dim=8).eval(),
        "GRU": lambda: model(RNNModel, rnn_hidden_dim=8, rnn_type="gru").eval(),
    }
    return {f"rsl_rl {name}": (make, examples(make), None) for name, make in makers.items()}


def saved(config: Any, environment: str) -> None:
    algorithm = config.create(device="cpu")
    algorithm.build_with_env(gym.make(environment))
    algorithm.save_policy(os.path.join(tempfile.mkdtemp(), "policy.onnx"))


def of_d3rlpy() -> dict[str, Any]:
    algorithms = d3rlpy.algos
    continuous = "BC CQL IQL SAC TD3".split()  # BCQ draws random numbers
    discrete = "DiscreteCQL DQN".split()
    return {
        f"d3rlpy {name}": (
            lambda n=name, e=environment: saved(getattr(algorithms, f"{n}Config")(), e)
        )
        for names, environment in ((continuous, PENDULUM), (discrete, CART))
        for name in names
    }


if __name__ == "__main__":
    comparison.start()
    comparison.of_models({**of_stable_baselines(), **of_rsl_rl()})
    comparison.of_calls(of_d3rlpy())
