"""Small models of the transformers library, from their configuration alone: nothing is downloaded.

Each entry of MODELS makes a module with random weights and example inputs. The sizes are tiny so that an export takes a
second or two; the operators are those of the real sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers as tf
from torch import Tensor, nn
from torch.utils import _pytree as pytree

Inputs = dict[str, Tensor]


class Outputs(nn.Module):
    """A model as a function from named tensors to a tuple of tensors."""

    def __init__(self, model: nn.Module, options: dict[str, Any]) -> None:
        super().__init__()
        self.model = model
        self.options = options

    def forward(self, **inputs: Tensor) -> tuple[Tensor, ...]:
        """Every tensor of the model's output, in order."""
        result = self.model(**inputs, **self.options)
        leaves = pytree.tree_leaves(tuple(result.to_tuple() if hasattr(result, "to_tuple") else (result,)))
        return tuple(leaf for leaf in leaves if isinstance(leaf, Tensor))


def tokens(length: int = 7, batch: int = 1, high: int = 90) -> Tensor:
    """Token ids."""
    return torch.randint(3, high, (batch, length))


def image(size: int = 32, channels: int = 3) -> Inputs:
    """One image."""
    return {"pixel_values": torch.rand(1, channels, size, size) * 2 - 1}


def text(length: int = 7, padded: int = 2) -> Inputs:
    """A sentence with padding at its end."""
    mask = torch.ones(1, length, dtype=torch.long)
    mask[:, length - padded :] = 0
    return {"input_ids": tokens(length), "attention_mask": mask}


def plain_text(length: int = 7) -> Inputs:
    """A sentence without padding."""
    return {"input_ids": tokens(length)}


def wave(samples: int = 1600) -> Inputs:
    """Sound."""
    return {"input_values": torch.randn(1, samples)}


SMALL = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 32,
}
GROUPED = {**SMALL, "num_key_value_heads": 2}
SMALL_VISION = {
    "image_size": 32,
    "patch_size": 8,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
BART = {
    "vocab_size": 100,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 32,
}
SPEECH = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "conv_dim": (16, 16, 16),
    "conv_stride": (5, 2, 2),
    "conv_kernel": (10, 3, 2),
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "vocab_size": 30,
    "apply_spec_augment": False,
}
NO_CACHE = {"use_cache": False}


def seq2seq() -> Inputs:
    """Tokens for an encoder and a decoder."""
    return {**text(), "decoder_input_ids": tokens(5)}


class Spec:
    """How a model is made."""

    def __init__(
        self,
        model: str,
        config: str,
        sizes: dict[str, Any],
        inputs: Callable[[], Inputs],
        options: dict[str, Any] | None = None,
    ) -> None:
        self.model, self.config, self.sizes, self.inputs, self.options = model, config, sizes, inputs, options or {}

    def make(self) -> tuple[nn.Module, Inputs]:
        """The module in inference mode, and its inputs."""
        sizes = {key: value() if callable(value) else value for key, value in self.sizes.items()}
        model = getattr(tf, self.model)(getattr(tf, self.config)(**sizes)).eval()
        return Outputs(model, self.options).eval(), self.inputs()


def decoder(name: str, **sizes: Any) -> Spec:
    """A language model."""
    return Spec(f"{name}ForCausalLM", f"{name}Config", {**GROUPED, "pad_token_id": 0, **sizes}, plain_text, NO_CACHE)


def encoder(name: str, **sizes: Any) -> Spec:
    """A text encoder."""
    return Spec(f"{name}Model", f"{name}Config", {**SMALL, **sizes}, text)


def vision(name: str, kind: str = "ForImageClassification", size: int = 32, **sizes: Any) -> Spec:
    """An image model."""
    return Spec(f"{name}{kind}", f"{name}Config", sizes, lambda: image(size))


def vit(name: str, kind: str = "ForImageClassification", **sizes: Any) -> Spec:
    """A vision transformer with plain names of sizes."""
    return vision(name, kind, **{**SMALL_VISION, **sizes})


def speech(name: str, kind: str = "ForCTC", **sizes: Any) -> Spec:
    """A model of raw sound."""
    return Spec(f"{name}{kind}", f"{name}Config", {**SPEECH, **sizes}, wave)


def resnet_backbone() -> Any:
    """A small backbone for detectors."""
    return tf.ResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage4"],
    )


DETR = {
    "backbone_config": resnet_backbone,
    "use_timm_backbone": False,
    "use_pretrained_backbone": False,
    "backbone": None,
    "num_queries": 5,
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
}


def detr_input() -> Inputs:
    """An image and which of its pixels count."""
    return {**image(64), "pixel_mask": torch.ones(1, 64, 64, dtype=torch.long)}


MODELS: dict[str, Spec] = {
    # Text encoders
    "bert": encoder("Bert"),
    "roberta": encoder("Roberta", max_position_embeddings=40),
    "xlm_roberta": encoder("XLMRoberta", max_position_embeddings=40),
    "distilbert": encoder("DistilBert", dim=32, n_layers=2, n_heads=4, hidden_dim=48),
    "albert": encoder("Albert", embedding_size=16),
    "electra": encoder("Electra", embedding_size=16),
    "mobilebert": encoder("MobileBert", embedding_size=16, intra_bottleneck_size=32, true_hidden_size=32),
    "mpnet": encoder("MPNet"),
    "convbert": encoder("ConvBert", embedding_size=16),
    "squeezebert": encoder("SqueezeBert", embedding_size=32, q_groups=2, k_groups=2, v_groups=2),
    "deberta_v2": encoder("DebertaV2", relative_attention=True, position_buckets=8, pos_att_type=["p2c", "c2p"]),
    "modernbert": encoder("ModernBert", pad_token_id=0, global_attn_every_n_layers=2, local_attention=4),
    # Language models
    "gpt2": Spec(
        "GPT2LMHeadModel",
        "GPT2Config",
        {"vocab_size": 100, "n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 4},
        plain_text,
        NO_CACHE,
    ),
    "gpt_neo": decoder("GPTNeo", num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], window_size=4),
    "gpt_neox": decoder("GPTNeoX"),
    "opt": decoder("OPT", ffn_dim=48, word_embed_proj_dim=32),
    "bloom": decoder("Bloom", n_layer=2, n_head=4),
    "llama": decoder("Llama"),
    "mistral": decoder("Mistral", sliding_window=4),
    "qwen2": decoder("Qwen2"),
    "qwen3": decoder("Qwen3", head_dim=8),
    "gemma": decoder("Gemma", head_dim=8),
    "gemma2": decoder("Gemma2", head_dim=8, sliding_window=4),
    "phi": decoder("Phi"),
    "phi3": decoder("Phi3"),
    "olmo2": decoder("Olmo2"),
    "stablelm": decoder("StableLm"),
    "falcon": decoder("Falcon", new_decoder_architecture=True, num_kv_heads=2),
    "cohere": decoder("Cohere"),
    # Encoder and decoder
    "t5": Spec(
        "T5ForConditionalGeneration",
        "T5Config",
        {"vocab_size": 100, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4},
        seq2seq,
        NO_CACHE,
    ),
    "bart": Spec("BartForConditionalGeneration", "BartConfig", BART, seq2seq, NO_CACHE),
    "marian": Spec("MarianMTModel", "MarianConfig", {**BART, "pad_token_id": 0}, seq2seq, NO_CACHE),
    # Image classification
    "vit": vit("ViT"),
    "deit": vit("DeiT"),
    "beit": vit("Beit", use_relative_position_bias=True),
    "dinov2": vit("Dinov2", patch_size=8),
    "swin": vision("Swin", image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4),
    "swinv2": vision(
        "Swinv2", image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4
    ),
    "convnext": vision("ConvNext", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1]),
    "convnextv2": vision("ConvNextV2", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1]),
    "resnet": vision("ResNet", embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1]),
    "regnet": vision("RegNet", embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], groups_width=8),
    "mobilenet_v1": vision("MobileNetV1", image_size=32, depth_multiplier=0.25),
    "mobilenet_v2": vision("MobileNetV2", image_size=32, depth_multiplier=0.25),
    "mobilevit": vision(
        "MobileViT",
        size=64,
        image_size=64,
        hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[8, 8, 16, 16, 24, 32, 48],
        num_attention_heads=4,
    ),
    "mobilevitv2": vision("MobileViTV2", size=64, image_size=64, width_multiplier=0.25, n_attn_blocks=[1, 1, 1]),
    "efficientnet": vision(
        "EfficientNet", size=64, image_size=64, width_coefficient=0.25, depth_coefficient=0.3, hidden_dim=320
    ),
    "levit": vision(
        "Levit",
        size=64,
        image_size=64,
        hidden_sizes=[32, 48, 64],
        num_attention_heads=[2, 3, 4],
        depths=[1, 1, 1],
        key_dim=[8, 8, 8],
        attention_ratio=[2, 2, 2],
        mlp_ratio=[2, 2, 2],
    ),
    "poolformer": vision("PoolFormer", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1]),
    "pvt_v2": vision(
        "PvtV2",
        size=64,
        image_size=64,
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 3, 4],
    ),
    "focalnet": vision(
        "FocalNet", image_size=32, embed_dim=16, depths=[1, 1], focal_levels=[2, 2], focal_windows=[3, 3]
    ),
    "cvt": vision("Cvt", size=64, embed_dim=[16, 32, 48], num_heads=[1, 2, 3], depth=[1, 2, 3]),
    "bit": vision("Bit", embedding_size=16, hidden_sizes=[32, 32, 64, 64], depths=[1, 1, 1, 1], num_groups=8),
    # Segmentation, depth, super-resolution
    "segformer": vision(
        "Segformer",
        "ForSemanticSegmentation",
        size=64,
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 3, 4],
        decoder_hidden_size=16,
    ),
    "mobilenet_v2_deeplab": vision(
        "MobileNetV2", "ForSemanticSegmentation", size=64, image_size=64, depth_multiplier=0.25
    ),
    "upernet": vision(
        "UperNet",
        "ForSemanticSegmentation",
        size=64,
        backbone_config=lambda: tf.ConvNextConfig(
            hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], out_features=["stage1", "stage2", "stage3", "stage4"]
        ),
        hidden_size=16,
        auxiliary_in_channels=24,
        auxiliary_channels=8,
    ),
    "glpn": vision(
        "GLPN",
        "ForDepthEstimation",
        size=64,
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 3, 4],
        decoder_hidden_size=16,
    ),
    "dpt": vit(
        "DPT",
        "ForDepthEstimation",
        num_hidden_layers=4,
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[8, 16, 24, 32],
        fusion_hidden_size=16,
    ),
    "swin2sr": vision(
        "Swin2SR",
        "ForImageSuperResolution",
        size=16,
        image_size=16,
        embed_dim=16,
        depths=[2],
        num_heads=[2],
        window_size=4,
        upscale=2,
    ),
    # Detection
    "yolos": vit("Yolos", "ForObjectDetection", image_size=[32, 32], num_detection_tokens=5),
    "detr": Spec("DetrForObjectDetection", "DetrConfig", DETR, detr_input),
    "conditional_detr": Spec("ConditionalDetrForObjectDetection", "ConditionalDetrConfig", DETR, detr_input),
    # Images and text
    "clip_vision": vit("CLIPVision", "Model", projection_dim=16),
    "clip_text": Spec("CLIPTextModel", "CLIPTextConfig", {**SMALL, "eos_token_id": 2}, text),
    "siglip_vision": vit("SiglipVision", "Model"),
    "clip": Spec(
        "CLIPModel",
        "CLIPConfig",
        {"text_config": {**SMALL, "eos_token_id": 2}, "vision_config": SMALL_VISION, "projection_dim": 16},
        lambda: {**text(), **image()},
    ),
    # Speech and sound
    "wav2vec2": speech("Wav2Vec2"),
    "hubert": speech("Hubert"),
    "wavlm": speech("WavLM", num_buckets=16, max_bucket_distance=32),
    "whisper": Spec(
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        {**BART, "num_mel_bins": 20, "max_source_positions": 25, "max_target_positions": 20, "pad_token_id": 0},
        lambda: {"input_features": torch.randn(1, 20, 50), "decoder_input_ids": tokens(4)},
        NO_CACHE,
    ),
    "audio_spectrogram": Spec(
        "ASTForAudioClassification",
        "ASTConfig",
        {**SMALL_VISION, "max_length": 64, "num_mel_bins": 32, "frequency_stride": 8, "time_stride": 8},
        lambda: {"input_values": torch.randn(1, 64, 32)},
    ),
    # Time series
    "patchtst": Spec(
        "PatchTSTForPrediction",
        "PatchTSTConfig",
        {
            "num_input_channels": 2,
            "context_length": 32,
            "patch_length": 8,
            "patch_stride": 8,
            "d_model": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "ffn_dim": 24,
            "prediction_length": 4,
            "do_mask_input": False,
        },
        lambda: {"past_values": torch.randn(1, 32, 2)},
    ),
}
