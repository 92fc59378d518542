"""Training and inference loops as documentation writes them: one function for a step, the loop around it.

Some replay only after the change that the reason states (`cudalens.graphs.capturable`); docs/programs.md says which.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from program import Programs, batches, inference_step
from torch import nn

PROGRAMS = Programs()


def _train(model, loss_of, optimizer, *, clip=0.0):
    """The step of most tutorials: it returns the loss, which still has its (freed) history."""

    def step(*batch):
        optimizer.zero_grad()
        loss = loss_of(*batch)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        return loss

    return step


def _labelled(device, *shape, classes=10, n=8):
    return [(torch.randn(shape).to(device), torch.randint(classes, shape[:1]).to(device)) for _ in range(n)]


def _ids(device, *shape, n=8):
    return [(torch.randint(32, shape).to(device), torch.randint(32, shape).to(device)) for _ in range(n)]


@PROGRAMS.add
def loop_quickstart(device):
    """PyTorch, "Quickstart": a perceptron on flattened images, SGD."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    return _train(model, lambda x, y: F.cross_entropy(model(x), y), optimizer), _labelled(device, 4, 1, 8, 8)


@PROGRAMS.add
def loop_cifar(device):
    """PyTorch, "Training a classifier": convolutions, SGD with momentum; the running loss is summed outside."""
    model = nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(54, 16), nn.ReLU(), nn.Linear(16, 10)
    ).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    return _train(model, lambda x, y: F.cross_entropy(model(x), y), optimizer), _labelled(device, 4, 3, 8, 8)


@PROGRAMS.add
def loop_polynomial(device):
    """PyTorch, "Learning with examples": a polynomial by RMSprop."""
    x = torch.linspace(-math.pi, math.pi, 64).unsqueeze(-1).pow(torch.tensor([1, 2, 3])).to(device)
    model = nn.Sequential(nn.Linear(3, 1), nn.Flatten(0, 1)).to(device)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    return _train(model, lambda y: F.mse_loss(model(x), y, reduction="sum"), optimizer), batches(device, 64, n=8)


@PROGRAMS.add
def loop_amp(device):
    """PyTorch, "Automatic mixed precision": autocast and a GradScaler."""
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    scaler = torch.amp.GradScaler(device)

    def step(x, y):
        with torch.autocast(device_type=device, dtype=torch.bfloat16):
            loss = F.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        return loss.detach()

    return step, [(torch.randn(4, 16).to(device), torch.randn(4, 4).to(device)) for _ in range(8)]


class _Residual(nn.Module):
    def __init__(self, width, wider, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width, wider, 3, stride, 1, bias=False), nn.BatchNorm2d(wider)
        self.conv2, self.bn2 = nn.Conv2d(wider, wider, 3, 1, 1, bias=False), nn.BatchNorm2d(wider)
        self.short = nn.Sequential(nn.Conv2d(width, wider, 1, stride, bias=False), nn.BatchNorm2d(wider))

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.short(x))


def _resnet():
    return nn.Sequential(
        _Residual(3, 8, 1), _Residual(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)
    )


@PROGRAMS.add
def loop_resnet(device):
    """torchvision's reference: a residual network with batch normalisation, momentum and weight decay."""
    model = _resnet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True)
    loss = nn.CrossEntropyLoss(label_smoothing=0.1)
    return _train(model, lambda x, y: loss(model(x), y), optimizer), _labelled(device, 4, 3, 8, 8)


@PROGRAMS.add
def loop_evaluation(device):
    """PyTorch, "Quickstart": the test loop; the number of correct answers stays on the device."""
    model = _resnet().eval().to(device)

    def step(x, y):
        out = model(x)
        return F.cross_entropy(out, y), (out.argmax(1) == y).sum()

    return inference_step(step), _labelled(device, 4, 3, 8, 8)


class _Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.ln1, self.ln2, self.heads, self.dropout = nn.LayerNorm(width), nn.LayerNorm(width), heads, dropout
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.qkv(self.ln1(x)).split(c, dim=2)
        q, k, v = (one.view(b, t, self.heads, c // self.heads).transpose(1, 2) for one in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0)
        x = x + self.out(y.transpose(1, 2).contiguous().view(b, t, c))
        return x + self.mlp(self.ln2(x))


class _GPT(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.wte, self.wpe, self.ln = nn.Embedding(32, 16), nn.Embedding(16, 16), nn.LayerNorm(16)
        self.blocks, self.head = nn.ModuleList(_Block(16, 2, dropout) for _ in range(2)), nn.Linear(16, 32, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids, targets=None):
        x = self.wte(ids) + self.wpe(torch.arange(ids.size(1), device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln(x))
        return logits if targets is None else F.cross_entropy(logits.view(-1, 32), targets.view(-1))


@PROGRAMS.add
def loop_nanogpt(device):
    """nanoGPT's train.py: AdamW with two groups, clipping, bfloat16."""
    model = _GPT().to(device)
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95))
    return _train(model, model, optimizer, clip=1.0), _ids(device, 2, 8)


@PROGRAMS.add
def loop_nanogpt_accumulation(device):
    """nanoGPT's micro steps: four backward passes in a step."""
    model = _GPT().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4)

    def step(ids, targets):
        for part, target in zip(ids.chunk(4), targets.chunk(4), strict=True):
            loss = model(part, target) / 4
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step, _ids(device, 4, 8)


@PROGRAMS.add
def loop_nanogpt_dropout(device):
    """nanoGPT with dropout: random numbers in forward and backward."""
    model = _GPT(dropout=0.1).to(device)
    return _train(model, model, torch.optim.SGD(model.parameters(), lr=0.1)), _ids(device, 2, 8)


@PROGRAMS.add
def loop_nanogpt_sample(device):
    """nanoGPT's sample.py, greedy: ten tokens in one call."""
    model = _GPT().eval().to(device)

    def generate(ids):
        for _ in range(4):
            logits = model(ids)[:, -1, :]
            ids = torch.cat((ids, logits.argmax(-1, keepdim=True)), dim=1)
        return ids

    return inference_step(generate), batches(device, 2, 4, n=8, high=32)


@PROGRAMS.add
def loop_static_cache_decoding(device):
    """gpt-fast: one token a call, keys and values in a static cache at a position on the device."""
    embed, qkv, head = (one.to(device) for one in (nn.Embedding(32, 16), nn.Linear(16, 48), nn.Linear(16, 32)))
    keys, values = torch.zeros(2, 16, 16).to(device), torch.zeros(2, 16, 16).to(device)

    def decode(token, position):
        q, k, v = qkv(embed(token)).chunk(3, -1)
        keys.index_copy_(1, position, k)
        values.index_copy_(1, position, v)
        mask = torch.arange(16, device=token.device) <= position
        return head(F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)).argmax(-1)

    calls = [(torch.randint(32, (2, 1)).to(device), torch.tensor([n]).to(device)) for n in range(8)]
    return inference_step(decode), calls


class _Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch, self.cls = nn.Conv2d(3, 16, 4, 4), nn.Parameter(torch.zeros(1, 1, 16))
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, norm_first=True),
            2,
            enable_nested_tensor=False,
        )
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        return self.head(self.encoder(torch.cat([self.cls.expand(x.size(0), -1, -1), x], 1))[:, 0])


@PROGRAMS.add
def loop_timm_ema(device):
    """timm's train.py: a vision transformer, AdamW, and an average of the weights."""
    model, average = _Vit().to(device), _Vit().to(device)
    average.load_state_dict(model.state_dict())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    train = _train(model, lambda x, y: F.cross_entropy(model(x), y), optimizer)

    def step(x, y):
        loss = train(x, y)
        with torch.no_grad():
            for mean, parameter in zip(average.parameters(), model.parameters(), strict=True):
                mean.lerp_(parameter, 0.01)
        return loss.detach()

    return step, _labelled(device, 4, 3, 8, 8)


@PROGRAMS.add
def loop_trainer_step(device):
    """transformers' Trainer.training_step, with its clipping and its optimizer."""
    model = _GPT().train().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)

    def step(ids, targets):
        model.train()
        loss = model(ids, targets)
        (loss / 1).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        model.zero_grad()
        return loss.detach()

    return step, _ids(device, 2, 8)


@PROGRAMS.add
def loop_lightning_automatic(device):
    """Lightning, automatic optimisation: the step of the optimizer calls a closure."""
    model = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 16)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(x):
        def closure():
            loss = F.mse_loss(model(x), x)
            optimizer.zero_grad()
            loss.backward()
            return loss

        return optimizer.step(closure).detach()

    return step, batches(device, 4, 16, n=8)


@PROGRAMS.add
def loop_lightning_manual(device):
    """Lightning, manual optimisation: an autoencoder."""
    encoder = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3)).to(device)
    decoder = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 16)).to(device)
    model = nn.ModuleList([encoder, decoder])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return _train(model, lambda x: F.mse_loss(decoder(encoder(x)), x), optimizer), batches(device, 4, 16, n=8)


@PROGRAMS.add
def loop_diffusion(device):
    """diffusers, "Train a diffusion model": noise, a random timestep, the loss of the noise."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.SiLU(), nn.Conv2d(8, 3, 3, padding=1)).to(device)
    alphas = torch.linspace(0.99, 0.1, 50).cumprod(0).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def loss(images, noise, times):
        a = alphas[times].view(-1, 1, 1, 1)
        return F.mse_loss(model(a.sqrt() * images + (1 - a).sqrt() * noise), noise)

    def batch():
        return (
            torch.randn(2, 3, 8, 8).to(device),
            torch.randn(2, 3, 8, 8).to(device),
            torch.randint(50, (2,)).to(device),
        )

    return _train(model, loss, optimizer, clip=1.0), [batch() for _ in range(8)]


@PROGRAMS.add
def loop_diffusion_sampling(device):
    """The sampling loop of DDIM, all of its steps in one call."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.SiLU(), nn.Conv2d(8, 3, 3, padding=1)).to(device)
    alphas = torch.linspace(0.99, 0.1, 8).cumprod(0).tolist()

    def sample(x):
        for now, before in zip(alphas[::-1], [*alphas[-2::-1], 1.0], strict=True):
            noise = model(x)
            x = before**0.5 * (x - (1 - now) ** 0.5 * noise) / now**0.5 + (1 - before) ** 0.5 * noise
        return x

    return inference_step(sample), batches(device, 2, 3, 8, 8, n=8)


class _Lora(nn.Module):
    def __init__(self, base, rank):
        super().__init__()
        self.base, self.scale = base.requires_grad_(False), 2.0
        self.a, self.b = nn.Linear(base.in_features, rank, bias=False), nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.b.weight)

    def forward(self, x):
        return self.base(x) + self.b(self.a(x)) * self.scale


@PROGRAMS.add
def loop_lora(device):
    """peft: frozen weights with low-rank updates."""
    model = nn.Sequential(_Lora(nn.Linear(16, 32), 4), nn.GELU(), _Lora(nn.Linear(32, 10), 4)).to(device)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    return _train(model, lambda x, y: F.cross_entropy(model(x), y), optimizer), _labelled(device, 4, 16)


@PROGRAMS.add
def loop_gcn(device):
    """A graph convolutional network on a fixed graph (PyTorch Geometric's introduction)."""
    adjacency = (torch.rand(12, 12) > 0.7).float()
    adjacency = ((adjacency + adjacency.T + torch.eye(12)) > 0).float()
    adjacency = (adjacency / adjacency.sum(1, keepdim=True)).to(device)
    first, second = nn.Linear(8, 16).to(device), nn.Linear(16, 4).to(device)
    model, y = nn.ModuleList([first, second]), torch.randint(4, (12,)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)

    def loss(x):
        hidden = F.dropout(F.relu(adjacency @ first(x)), 0.5)
        return F.nll_loss(F.log_softmax(adjacency @ second(hidden), dim=1), y)

    return _train(model, loss, optimizer), batches(device, 12, 8, n=8)


@PROGRAMS.add
def loop_dqn(device):
    """PyTorch, "Reinforcement learning (DQN)": optimize_model and the soft update of the target network."""
    policy, target = (nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)).to(device) for _ in range(2))
    optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-4, amsgrad=True)

    def step(state, action, reward, following):
        values = policy(state).gather(1, action)
        with torch.no_grad():
            wanted = target(following).max(1).values * 0.99 + reward
        loss = F.smooth_l1_loss(values, wanted.unsqueeze(1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(policy.parameters(), 100)
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), policy.parameters(), strict=True):
                slow.mul_(0.995).add_(fast, alpha=0.005)
        return loss.detach()

    def batch():
        state, following, reward = torch.randn(8, 4), torch.randn(8, 4), torch.randn(8)
        return state.to(device), torch.randint(2, (8, 1)).to(device), reward.to(device), following.to(device)

    return step, [batch() for _ in range(8)]


@PROGRAMS.add
def loop_ppo(device):
    """An update of PPO: the clipped objective, the value loss and the entropy."""
    actor, critic = nn.Linear(4, 3).to(device), nn.Linear(4, 1).to(device)
    model = nn.ModuleList([actor, critic])
    optimizer = torch.optim.Adam(model.parameters(), lr=2.5e-4, eps=1e-5)

    def loss(state, action, old, advantage):
        log = F.log_softmax(actor(state), -1)
        ratio = (log.gather(1, action).squeeze(1) - old).exp()
        gain = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        entropy = -(log.exp() * log).sum(-1).mean()
        return -gain + 0.5 * F.mse_loss(critic(state).squeeze(1), advantage) - 0.01 * entropy

    def batch():
        parts = torch.randn(8, 4), torch.randint(3, (8, 1)), -torch.rand(8), torch.randn(8)
        return tuple(part.to(device) for part in parts)

    return _train(model, loss, optimizer, clip=0.5), [batch() for _ in range(8)]


@PROGRAMS.add
def loop_dcgan(device):
    """PyTorch, "DCGAN": two networks, two optimizers, three backward passes."""
    generator = nn.Sequential(nn.ConvTranspose2d(4, 8, 4), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 3, 1), nn.Tanh())
    critic = nn.Sequential(nn.Conv2d(3, 8, 3), nn.LeakyReLU(0.2), nn.Conv2d(8, 1, 2), nn.Flatten(0), nn.Sigmoid())
    generator, critic = generator.to(device), critic.to(device)
    first = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
    second = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))

    def step(real, noise):
        critic.zero_grad()
        out = critic(real)
        error_real = F.binary_cross_entropy(out, torch.full_like(out, 1.0))
        error_real.backward()
        fake = generator(noise)
        out = critic(fake.detach())
        error_fake = F.binary_cross_entropy(out, torch.full_like(out, 0.0))
        error_fake.backward()
        first.step()
        generator.zero_grad()
        out = critic(fake)
        error = F.binary_cross_entropy(out, torch.full_like(out, 1.0))
        error.backward()
        second.step()
        return (error_real + error_fake).detach(), error.detach()

    return step, [(torch.randn(2, 3, 4, 4).to(device), torch.randn(2, 4, 1, 1).to(device)) for _ in range(8)]


@PROGRAMS.add
def loop_language_model(device):
    """PyTorch's word_language_model: an LSTM whose state is detached and goes on."""
    embed, lstm, head = nn.Embedding(32, 16), nn.LSTM(16, 16, batch_first=True), nn.Linear(16, 32)
    model = nn.ModuleList([embed, lstm, head]).to(device)
    hidden = [torch.zeros(1, 2, 16).to(device), torch.zeros(1, 2, 16).to(device)]

    def step(ids, targets):
        model.zero_grad()
        out, state = lstm(embed(ids), tuple(hidden))
        loss = F.cross_entropy(head(out).flatten(0, 1), targets.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        with torch.no_grad():
            for old, new in zip(hidden, state, strict=True):
                old.copy_(new)
            for p in model.parameters():
                p.add_(p.grad, alpha=-0.1)
        return loss.detach()

    return step, _ids(device, 2, 6)


@PROGRAMS.add
def loop_vae(device):
    """PyTorch's VAE example: a sample of the latent by its mean and variance."""
    encoder, decoder = nn.Linear(16, 8).to(device), nn.Sequential(nn.Linear(4, 16), nn.Sigmoid()).to(device)
    model = nn.ModuleList([encoder, decoder])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def loss(x):
        mean, log_variance = encoder(x).chunk(2, -1)
        out = decoder(mean + torch.randn_like(mean) * (0.5 * log_variance).exp())
        divergence = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum()
        return F.binary_cross_entropy(out, x, reduction="sum") + divergence

    return _train(model, loss, optimizer), [(torch.rand(4, 16).to(device),) for _ in range(8)]


@PROGRAMS.add
def loop_simclr(device):
    """A contrastive loss over two views (SimCLR)."""
    model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 8)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4, weight_decay=1e-4)

    def loss(x):
        features = F.normalize(model(torch.cat([x, x + 0.1])), dim=1)
        likeness = features @ features.T / 0.07
        mask = torch.eye(len(features), dtype=torch.bool, device=x.device)
        targets = (torch.arange(len(features), device=x.device) + len(x)) % len(features)
        return F.cross_entropy(likeness.masked_fill(mask, float("-inf")), targets)

    return _train(model, loss, optimizer), batches(device, 4, 16, n=8)


@PROGRAMS.add
def loop_clip(device):
    """CLIP's loss with a learned temperature."""
    images, texts = nn.Linear(16, 8).to(device), nn.Linear(12, 8).to(device)
    scale = nn.Parameter(torch.tensor(2.66).to(device))
    model = nn.ModuleList([images, texts])
    optimizer = torch.optim.AdamW([*model.parameters(), scale], lr=1e-4)

    def loss(image, text):
        logits = scale.exp() * F.normalize(images(image), dim=-1) @ F.normalize(texts(text), dim=-1).T
        targets = torch.arange(len(image), device=image.device)
        return (F.cross_entropy(logits, targets) + F.cross_entropy(logits.T, targets)) / 2

    return _train(model, loss, optimizer), [
        (torch.randn(4, 16).to(device), torch.randn(4, 12).to(device)) for _ in range(8)
    ]


@PROGRAMS.add
def loop_distillation(device):
    """PyTorch, "Knowledge distillation": a teacher without gradients, a student with two losses."""
    teacher = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10)).eval().to(device)
    student = nn.Linear(16, 10).to(device)
    optimizer = torch.optim.Adam(student.parameters(), lr=1e-3)

    def loss(x, y):
        with torch.no_grad():
            wanted = F.softmax(teacher(x) / 2, dim=-1)
        out = student(x)
        soft = (wanted * (wanted.log() - F.log_softmax(out / 2, dim=-1))).sum() / len(x) * 4
        return 0.25 * soft + 0.75 * F.cross_entropy(out, y)

    return _train(student, loss, optimizer), _labelled(device, 4, 16)


@PROGRAMS.add
def loop_scheduler(device):
    """A OneCycle schedule: the learning rate is another one in each step."""
    model = nn.Linear(16, 10).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    train = _train(model, lambda x, y: F.cross_entropy(model(x), y), optimizer)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.01, total_steps=100)

    def calls():
        for x, y in _labelled(device, 4, 16):
            yield x, y
            scheduler.step()

    return train, calls()


@PROGRAMS.add
def loop_checkpointing(device):
    """Activation checkpointing without reentrance."""
    blocks = nn.ModuleList(nn.Sequential(nn.Linear(16, 16), nn.GELU()) for _ in range(3)).to(device)
    optimizer = torch.optim.SGD(blocks.parameters(), lr=0.1)

    def loss(x):
        for block in blocks:
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
        return x.square().mean()

    return _train(blocks, loss, optimizer), batches(device, 4, 16, n=8)


@PROGRAMS.add
def loop_printing(device):
    """The loss is printed in every step: Python code with an effect."""
    model = nn.Linear(16, 10).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train = _train(model, lambda x, y: F.cross_entropy(model(x), y), optimizer)

    def step(x, y):
        loss = train(x, y)
        print(f"loss: {loss.item():.3f}")
        return loss

    return step, _labelled(device, 4, 16)
