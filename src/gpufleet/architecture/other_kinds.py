"""Models that neither write token after token nor encode in one pass: what they are, told by a family or a class."""

from __future__ import annotations

import re

from gpufleet.errors import UsageError

VIDEO = (
    r"wan(transformer|vace|pipeline|\d|$)|cogvideo|hunyuanvideo|ltx|mochi|opensora|allegro|stablevideodiffusion|"
    r"animatediff|video\w*(pipeline|transformer)"
)
AUDIO = r"stableaudio|audioldm|musicldm|musicgen|musicflamingo|encodec|dac$"
VOICE = r"speecht5|bark|vits|parler|kokoro|fastspeech|styletts|xtts|f5tts|orpheus|csm$|dia$|\w*tts(model|pipeline)?$"
IMAGE = (
    r"stablediffusion|unet|flux|sd3|pixart|sana(transformer|pipeline|$)|kolors|kandinsky|qwenimage|zimage|lumina|"
    r"auraflow|hidream|omnigen|controlnet|autoencoder|vqmodel|latentconsistency|"
    r"\w*(diffusion|transformer2d|transformer3d|text2image)"
)
SEEN = (
    r"detr|deformabledetr|yolos|owlv|groundingdino|sam\d?(model)?$|segformer|mask2former|convnext|resnet|swin|dpt$|"
    r"efficientnet"
)
KINDS = (
    (VIDEO, "a video generator", "videos"),
    (AUDIO, "a generator or codec of sound", "seconds of sound"),
    (VOICE, "a text-to-speech model", "seconds of speech"),
    (IMAGE, "an image generator, or a part of one", "images"),
    (SEEN, "a model of images alone", "images"),
)


def other_kind(family: str) -> tuple[str, str] | None:
    """What a family or class of no text model is, and what it makes; None where nothing here knows it.

    >>> other_kind("UNet2DConditionModel"), other_kind("llama")
    (('an image generator, or a part of one', 'images'), None)
    """
    folded = re.sub(r"[^a-z0-9]", "", family.casefold())[:100]
    return next(((kind, made) for pattern, kind, made in KINDS if re.match(pattern, folded)), None)


def refusal_of_kind(name: str, family: str, kind: str, made: str) -> UsageError:
    """What a model is, and how its machines can be priced all the same."""
    return UsageError(
        f"{name} is {kind} (family {family}), which is not planned yet",
        expected="a model that writes text, or an encoder",
        hint=f"Measure its {made} per second on one GPU; 'gpufleet catalog prices --gpu H100,L40S' prices that GPU.",
    )
