"""Programs of diffusers, accelerate, peft, torch_geometric, x-transformers, torchmetrics and Lightning."""

from __future__ import annotations

import accelerate
import diffusers
import lightning
import peft
import sentence_transformers
import sentence_transformers.sentence_transformer.modules
import torch
import torch_geometric
import torchmetrics
import transformers
import x_transformers
from program import LAYOUT, Programs, batches, inference_step, training_step
from torch import nn

PROGRAMS = Programs()


def _unet(device):
    model = diffusers.UNet2DModel(
        sample_size=8,
        in_channels=3,
        out_channels=3,
        layers_per_block=1,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        attention_head_dim=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )
    return model.to(device)


@PROGRAMS.add(condition=LAYOUT)
def diffusers_unet_forward(device):
    model = _unet(device).eval()
    return inference_step(lambda x: model(x, 5).sample), batches(device, 2, 3, 8, 8)


@PROGRAMS.add(condition=LAYOUT)
def diffusers_unet_training(device):
    model = _unet(device)
    time = torch.tensor([3, 7]).to(device)
    return training_step(model, lambda x: model(x, time).sample.square().mean()), batches(device, 2, 3, 8, 8)


@PROGRAMS.add(condition=LAYOUT)
def diffusers_ddim_loop(device):
    model, scheduler = _unet(device).eval(), diffusers.DDIMScheduler(num_train_timesteps=20)
    scheduler.set_timesteps(4)

    def denoise(x):
        for time in scheduler.timesteps:
            x = scheduler.step(model(x, time).sample, time, x).prev_sample
        return x

    return inference_step(denoise), batches(device, 1, 3, 8, 8)


@PROGRAMS.add
def diffusers_vae(device):
    model = diffusers.AutoencoderKL(block_out_channels=(8,), norm_num_groups=4, sample_size=8).eval().to(device)
    return inference_step(lambda x: model(x).sample), batches(device, 1, 3, 8, 8)


def _mlp():
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.2), nn.Linear(16, 4))


@PROGRAMS.add
def accelerate_training(device):
    accelerator = accelerate.Accelerator(cpu=device == "cpu")
    model = _mlp()
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        return loss.detach(), [parameter.detach().clone() for parameter in model.parameters()]

    return step, batches(device, 4, 8)


@PROGRAMS.add
def accelerate_cpu_offload(device):
    model = _mlp().eval()
    if device != "cpu":
        accelerate.cpu_offload(model, execution_device=torch.device(device, 0))
    return inference_step(model), batches(device, 4, 8)


@PROGRAMS.add
def peft_lora_training(device):
    config = transformers.GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=64)
    lora = peft.LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True, init_lora_weights=False)
    model = peft.get_peft_model(transformers.GPT2LMHeadModel(config), lora).to(device)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    return training_step(model, lambda ids: model(ids, labels=ids).loss, optimizer), batches(device, 2, 8, high=64)


@PROGRAMS.add
def peft_merge(device):
    lora = peft.LoraConfig(r=4, target_modules=["0", "3"], init_lora_weights=False)
    model = peft.get_peft_model(_mlp().eval().to(device), lora).merge_and_unload()
    return inference_step(model), batches(device, 4, 8)


def _edges(device):
    return torch.randint(10, (2, 30)).to(device)


@PROGRAMS.add
def geometric_gcn_training(device):
    model = torch_geometric.nn.GCN(8, 16, num_layers=2, out_channels=3, dropout=0.2).to(device)
    edges = _edges(device)
    return training_step(model, lambda x: model(x, edges).square().mean()), batches(device, 10, 8)


@PROGRAMS.add
def geometric_gat_forward(device):
    model = torch_geometric.nn.GAT(8, 16, num_layers=2, out_channels=3, heads=2).eval().to(device)
    edges = _edges(device)
    return inference_step(lambda x: model(x, edges)), batches(device, 10, 8)


@PROGRAMS.add
def geometric_pool(device):
    convolution = torch_geometric.nn.SAGEConv(8, 4).to(device)
    edges, batch = _edges(device), torch.tensor([0] * 4 + [1] * 6).to(device)
    pool = torch_geometric.nn.global_mean_pool
    return inference_step(lambda x: pool(convolution(x, edges), batch)), batches(device, 10, 8)


@PROGRAMS.add
def x_transformers_decoder(device):
    layers = x_transformers.Decoder(dim=32, depth=2, heads=4, rotary_pos_emb=True)
    model = x_transformers.TransformerWrapper(num_tokens=64, max_seq_len=16, attn_layers=layers).eval().to(device)
    return inference_step(model), batches(device, 2, 8, high=64)


@PROGRAMS.add
def x_transformers_training(device):
    layers = x_transformers.Decoder(dim=32, depth=2, heads=4, attn_flash=True)
    model = x_transformers.TransformerWrapper(num_tokens=64, max_seq_len=16, attn_layers=layers)
    model = x_transformers.AutoregressiveWrapper(model).to(device)
    return training_step(model, model), batches(device, 2, 8, high=64)


@PROGRAMS.add
def torchmetrics_classification(device):
    options = {"task": "multiclass", "num_classes": 4}
    metrics = torchmetrics.MetricCollection(
        [
            torchmetrics.Accuracy(**options),
            torchmetrics.F1Score(**options, average="macro"),
            torchmetrics.ConfusionMatrix(**options),
            torchmetrics.AUROC(**options),
        ]
    ).to(device)
    target = torch.randint(4, (32,)).to(device)
    return lambda x: metrics(x.softmax(-1), target), batches(device, 32, 4)


@PROGRAMS.add
def torchmetrics_regression(device):
    metrics = torchmetrics.MetricCollection(
        [torchmetrics.MeanSquaredError(), torchmetrics.R2Score(), torchmetrics.PearsonCorrCoef()]
    ).to(device)
    return lambda x: metrics(x, x * 0.5 + 1), batches(device, 32)


class _Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.losses = []
        self.model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))  # no numbers drawn on the device

    def training_step(self, batch):
        loss = self.model(batch[0]).square().mean()
        self.losses.append(loss.detach().clone())
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


@PROGRAMS.add
def lightning_fit(device):
    data = torch.utils.data.TensorDataset(torch.randn(16, 8))
    module = _Module()
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    accelerator = "cpu" if device == "cpu" else "gpu"

    def fit():
        trainer = lightning.Trainer(max_epochs=2, accelerator=accelerator, devices=1, barebones=False, **quiet)
        trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=4))
        return module.losses, list(module.parameters())

    return fit, [()]


@PROGRAMS.add
def lightning_fabric(device):
    fabric = lightning.Fabric(accelerator="cpu" if device == "cpu" else "gpu", devices=1)
    model = _mlp()
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        fabric.backward(loss)
        optimizer.step()
        return loss.detach(), [parameter.detach().clone() for parameter in model.parameters()]

    return step, batches(device, 4, 8)


@PROGRAMS.add
def sentence_embedding(device):
    config = transformers.BertConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4
    )
    model = transformers.BertModel(config).eval().to(device)
    pool = sentence_transformers.sentence_transformer.modules.Pooling(32, pooling_mode="mean")

    def embed(ids):
        features = {"token_embeddings": model(ids).last_hidden_state, "attention_mask": torch.ones_like(ids)}
        return nn.functional.normalize(pool(features)["sentence_embedding"])

    return inference_step(embed), batches(device, 2, 8, high=64)


@PROGRAMS.add(condition=LAYOUT)
def diffusers_conditioned_unet_training(device):
    model = diffusers.UNet2DConditionModel(
        sample_size=8,
        layers_per_block=1,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        attention_head_dim=4,
        cross_attention_dim=8,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    ).to(device)
    scheduler, text = diffusers.DDPMScheduler(num_train_timesteps=20), torch.randn(2, 5, 8).to(device)
    times, noise = torch.tensor([3, 7]).to(device), torch.randn(2, 4, 8, 8).to(device)

    def loss(x):
        return (model(scheduler.add_noise(x, noise, times), times, text).sample - noise).square().mean()

    return training_step(model, loss, torch.optim.AdamW(model.parameters())), batches(device, 2, 4, 8, 8)
