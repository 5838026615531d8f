#!/usr/bin/env python3
"""Writes pictures.lua: small PNG and JPEG files in hexadecimal, and the pixels that Pillow reads from them.

    pip install pillow numpy
    python3 t/golden/pictures.py > t/golden/pictures.lua
"""
import io

import numpy as np
from PIL import Image, ImageOps

H, W = 9, 11
y, x = np.mgrid[0:H, 0:W]
RGB = np.stack([x * 20, y * 25, (x * y * 7) % 256], 2).astype(np.uint8)
GREY = RGB[:, :, 2]


def pictures():
    rgb, grey = Image.fromarray(RGB), Image.fromarray(GREY)
    yield "rgb.png", rgb, {}
    yield "grey.png", grey, {}
    yield "alpha.png", Image.fromarray(np.dstack([RGB, GREY])), {}
    yield "grey-alpha.png", Image.fromarray(np.dstack([GREY, GREY[::-1]]), "LA"), {}
    yield "palette.png", rgb.quantize(16), {}
    yield "one-bit.png", grey.point(lambda v: 255 * (v > 99)).convert("1"), {}
    yield "rgb.jpg", rgb, dict(quality=90)
    yield "halved.jpg", rgb, dict(quality=70, subsampling=2)
    yield "grey.jpg", grey, {}
    yield "progressive.jpg", rgb, dict(progressive=True)
    yield "cmyk.jpg", rgb.convert("CMYK"), {}
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x010F], exif[0x0112] = "maker", orientation
        if orientation in (2, 7):
            yield f"turned-{orientation}.png", rgb, dict(exif=exif)
        exif.endian = ">" if orientation % 2 else "<"
        yield f"turned-{orientation}.jpg", grey if orientation == 3 else rgb, dict(exif=exif, quality=20)


print("-- pictures.lua - small PNG and JPEG files, and their pixels {height, width, 3}, made by pictures.py.\n\nreturn {")
for name, image, how in pictures():
    out = io.BytesIO()
    image.save(out, "PNG" if name.endswith("png") else "JPEG", **how)
    pixels = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(out.getvalue()))).convert("RGB"))
    print(f'  {{"{name}", "{out.getvalue().hex()}",\n    "{pixels.tobytes().hex()}"}},')
print("}")
