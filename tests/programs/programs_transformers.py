"""Programs of transformers, with small configurations and random weights."""

from __future__ import annotations

import tempfile

import torch
import transformers
from program import AUTOCAST, Programs, batches, inference_step, training_step

PROGRAMS = Programs()
_SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
_TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}


@PROGRAMS.add
def bert_forward(device):
    model = transformers.BertModel(transformers.BertConfig(**_SMALL)).eval().to(device)
    return inference_step(lambda ids: model(ids).last_hidden_state), batches(device, 2, 8, high=64)


@PROGRAMS.add
def bert_backward(device):
    model = transformers.BertForMaskedLM(transformers.BertConfig(**_SMALL)).to(device)
    return training_step(model, lambda ids: model(ids, labels=ids).loss), batches(device, 2, 8, high=64)


@PROGRAMS.add
def distilbert_classifier(device):
    config = transformers.DistilBertConfig(vocab_size=64, dim=32, hidden_dim=48, n_layers=2, n_heads=4)
    model = transformers.DistilBertForSequenceClassification(config).eval().to(device)
    return inference_step(lambda ids: model(ids).logits), batches(device, 2, 8, high=64)


def _gpt2(**options):
    config = transformers.GPT2Config(
        vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=64, **_TOKENS, **options
    )
    return transformers.GPT2LMHeadModel(config)


@PROGRAMS.add
def gpt2_training(device):
    model = _gpt2().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return training_step(model, lambda ids: model(ids, labels=ids).loss, optimizer), batches(device, 2, 8, high=64)


@PROGRAMS.add
def gpt2_gradient_checkpointing(device):
    model = _gpt2(use_cache=False).to(device).train()
    model.gradient_checkpointing_enable()
    return training_step(model, lambda ids: model(ids, labels=ids).loss), batches(device, 2, 8, high=64)


def _llama(device, **options):
    config = transformers.LlamaConfig(**_SMALL, **_TOKENS, num_key_value_heads=2, **options)
    return transformers.LlamaForCausalLM(config).eval().to(device)


@PROGRAMS.add
def llama_forward(device):
    model = _llama(device)
    return inference_step(lambda ids: model(ids, use_cache=False).logits), batches(device, 2, 8, high=64)


@PROGRAMS.add
def llama_generate_dynamic_cache(device):
    model = _llama(device)
    return lambda ids: model.generate(ids, max_new_tokens=5, do_sample=False), batches(device, 2, 8, n=3, high=64)


@PROGRAMS.add
def llama_generate_static_cache(device):
    model = _llama(device)
    options = {"max_new_tokens": 5, "do_sample": False, "cache_implementation": "static", "disable_compile": True}
    return lambda ids: model.generate(ids, **options), batches(device, 2, 8, n=3, high=64)


@PROGRAMS.add
def llama_generate_sampling(device):
    model = _llama(device)
    options = {"max_new_tokens": 5, "do_sample": True, "top_k": 20, "temperature": 0.8}
    return lambda ids: model.generate(ids, **options), batches(device, 2, 8, n=3, high=64)


def _t5():
    config = transformers.T5Config(
        vocab_size=64, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0
    )
    return transformers.T5ForConditionalGeneration(config)


@PROGRAMS.add
def t5_training(device):
    model = _t5().to(device)
    return training_step(model, lambda ids: model(input_ids=ids, labels=ids).loss), batches(device, 2, 8, high=64)


@PROGRAMS.add
def t5_generate(device):
    model = _t5().eval().to(device)
    return lambda ids: model.generate(ids, max_new_tokens=4, num_beams=2), batches(device, 2, 8, n=3, high=64)


def _whisper():
    layers = {f"{part}_{what}": 2 for part in ("encoder", "decoder") for what in ("layers", "attention_heads")}
    config = transformers.WhisperConfig(
        vocab_size=64,
        d_model=32,
        num_mel_bins=8,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        max_source_positions=10,
        max_target_positions=16,
        decoder_start_token_id=1,
        **_TOKENS,
        **layers,
    )
    return transformers.WhisperForConditionalGeneration(config)


@PROGRAMS.add
def whisper_forward(device):
    model = _whisper().eval().to(device)
    ids = torch.randint(64, (2, 4)).to(device)
    step = inference_step(lambda audio: model(input_features=audio, decoder_input_ids=ids).logits)
    return step, batches(device, 2, 8, 20)


@PROGRAMS.add
def whisper_training(device):
    model = _whisper().to(device)
    ids = torch.randint(64, (2, 4)).to(device)
    return training_step(model, lambda audio: model(input_features=audio, labels=ids).loss), batches(device, 2, 8, 20)


def _mixtral(device):
    config = transformers.MixtralConfig(
        **_SMALL,
        **_TOKENS,
        num_key_value_heads=2,
        num_local_experts=4,
        num_experts_per_tok=2,
        output_router_logits=True,
    )
    return transformers.MixtralForCausalLM(config).to(device)


@PROGRAMS.add
def mixtral_forward(device):
    model = _mixtral(device).eval()
    return inference_step(lambda ids: model(ids, use_cache=False).logits), batches(device, 2, 8, high=64)


@PROGRAMS.add
def mixtral_training(device):
    model = _mixtral(device)
    return training_step(model, lambda ids: model(ids, labels=ids).loss), batches(device, 2, 8, high=64)


def _vit(device):
    small = {name: value for name, value in _SMALL.items() if name.startswith(("hidden", "inter", "num"))}
    config = transformers.ViTConfig(**small, image_size=16, patch_size=4, num_labels=3)
    return transformers.ViTForImageClassification(config).to(device)


@PROGRAMS.add
def vit_forward(device):
    model = _vit(device).eval()
    return inference_step(lambda images: model(images).logits), batches(device, 2, 3, 16, 16)


@PROGRAMS.add(condition=AUTOCAST)
def vit_autocast_training(device):
    model = _vit(device)
    labels = torch.tensor([0, 2]).to(device)

    def loss(images):
        with torch.autocast(device, dtype=torch.bfloat16):
            return model(images, labels=labels).loss

    return training_step(model, loss, torch.optim.SGD(model.parameters(), lr=0.1)), batches(device, 2, 3, 16, 16)


@PROGRAMS.add
def clip_forward(device):
    config = transformers.CLIPVisionConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, image_size=16, patch_size=4
    )
    model = transformers.CLIPVisionModel(config).eval().to(device)
    return inference_step(lambda images: model(images).pooler_output), batches(device, 2, 3, 16, 16)


@PROGRAMS.add
def qwen_generate(device):
    config = transformers.Qwen2Config(**_SMALL, **_TOKENS, num_key_value_heads=2)
    model = transformers.Qwen2ForCausalLM(config).eval().to(device)
    return lambda ids: model.generate(ids, max_new_tokens=4, do_sample=False), batches(device, 2, 8, n=3, high=64)


@PROGRAMS.add
def gemma_sliding_window_generate(device):
    config = transformers.Gemma2Config(**_SMALL, **_TOKENS, num_key_value_heads=2, head_dim=8, sliding_window=4)
    model = transformers.Gemma2ForCausalLM(config).eval().to(device)
    return lambda ids: model.generate(ids, max_new_tokens=6, do_sample=False), batches(device, 2, 8, n=3, high=64)


@PROGRAMS.add
def mamba_training(device):
    config = transformers.MambaConfig(vocab_size=64, hidden_size=16, state_size=4, num_hidden_layers=2, **_TOKENS)
    model = transformers.MambaForCausalLM(config).to(device)
    return training_step(model, lambda ids: model(ids, labels=ids).loss), batches(device, 2, 8, high=64)


class _Sentences(torch.utils.data.Dataset):
    def __init__(self):
        self._ids = torch.randint(64, (8, 8))

    def __len__(self):
        return len(self._ids)

    def __getitem__(self, index):
        return {"input_ids": self._ids[index], "labels": self._ids[index]}


@PROGRAMS.add
def trainer(device):
    model = _gpt2(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)  # no numbers drawn on the device

    def train():
        with tempfile.TemporaryDirectory() as folder:
            options = transformers.TrainingArguments(
                folder,
                max_steps=4,
                per_device_train_batch_size=2,
                use_cpu=device == "cpu",
                report_to=[],
                save_strategy="no",
                disable_tqdm=True,
                logging_strategy="no",
                gradient_accumulation_steps=2,
            )
            transformers.Trainer(model, options, train_dataset=_Sentences()).train()
        return [parameter.detach().clone() for parameter in model.parameters()]

    return train, [()]


@PROGRAMS.add
def bart_beam_search(device):
    config = transformers.BartConfig(
        vocab_size=64,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        max_position_embeddings=32,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=2,
        forced_eos_token_id=None,
    )
    model = transformers.BartForConditionalGeneration(config).eval().to(device)
    return lambda ids: model.generate(ids, max_new_tokens=5, num_beams=3), batches(device, 2, 8, n=3, high=64)
