#!/usr/bin/env python3
"""Writes images.lua: results of the image processors of transformers that use Pillow. The pixels follow from the formula in
families.py.

    pip install torch transformers 'pillow>=13'
    python3 t/golden/models/images.py > t/golden/models/images.lua

Each case has: preprocessor_config.json, a model_type, the height and width of the pixels, the shape of the result, a weighted
sum of all values of the result, and five values.
"""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from families import spread

import numpy as np
import transformers.models as M

SQUARE = lambda n: dict(height=n, width=n)
CASES = [  # model_type, processor, settings, sizes of the pixels
    ("vit", "vit.image_processing_pil_vit.ViTImageProcessorPil", dict(size=SQUARE(16)), [(40, 56), (9, 7), (16, 16)]),
    ("deit", "deit.image_processing_pil_deit.DeiTImageProcessorPil", dict(size=SQUARE(20), crop_size=SQUARE(16)), [(48, 30), (11, 64)]),
    ("clip", "clip.image_processing_pil_clip.CLIPImageProcessorPil", dict(size={"shortest_edge": 16}, crop_size=SQUARE(16)), [(37, 80), (64, 33), (5, 9)]),
    ("clip", "clip.image_processing_pil_clip.CLIPImageProcessorPil", dict(size={"shortest_edge": 11}, crop_size=SQUARE(16)), [(37, 80), (12, 12)]),
    ("siglip", "siglip.image_processing_pil_siglip.SiglipImageProcessorPil", dict(size=SQUARE(16)), [(33, 64)]),
    ("dinov2", "bit.image_processing_pil_bit.BitImageProcessorPil", dict(size={"shortest_edge": 18}, crop_size=SQUARE(15)), [(50, 31)]),
    ("convnext", "convnext.image_processing_pil_convnext.ConvNextImageProcessorPil", dict(size={"shortest_edge": 16}, crop_pct=0.7), [(50, 31), (20, 90)]),
    ("resnet", "convnext.image_processing_pil_convnext.ConvNextImageProcessorPil", dict(size={"shortest_edge": 384}), [(8, 10)]),
    ("vit", "vit.image_processing_pil_vit.ViTImageProcessorPil", dict(do_resize=False, do_normalize=False), [(6, 7)]),
    ("vit", "vit.image_processing_pil_vit.ViTImageProcessorPil", dict(do_resize=False, do_rescale=False), [(6, 7)]),
] + [("vit", "vit.image_processing_pil_vit.ViTImageProcessorPil", dict(size=dict(height=13, width=21), resample=r), [(40, 50), (7, 9)]) for r in (0, 1, 4, 5)]


def pixels(height, width):
    n = 2 * 3 * height * width
    return ((spread("pixels", n) + 1) * 128).astype(np.uint8).reshape(2, 3, height, width)


def main():
    print("-- images.lua - results of image processors of transformers, made by images.py.\n\nreturn {")
    for model_type, path, settings, sizes in CASES:
        module, name = path.rsplit(".", 1)
        processor = getattr(__import__("transformers.models." + module, fromlist=[name]), name)(**settings)
        words = json.loads(processor.to_json_string())
        for height, width in sizes:
            y = processor(images=list(pixels(height, width)), input_data_format="channels_first", return_tensors="np")["pixel_values"]
            all_of = float((y.astype(np.float64).ravel() * spread("all", y.size)).sum())
            some = ", ".join("%.6f" % x for x in y.ravel()[:: y.size // 5][:5])
            print(f'  {{"{model_type}", [=[{json.dumps(words)}]=], {height}, {width}, shape = {{{", ".join(map(str, y.shape))}}},')
            print(f"    all = {all_of:.6f}, some = {{{some}}}}},")
    print("}")


if __name__ == "__main__":
    main()
