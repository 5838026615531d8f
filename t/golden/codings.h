/* codings.h - digests of decoded values, made by codings.py. A plain table; any thread. */
#ifndef RILLE_T_CODINGS_H
#define RILLE_T_CODINGS_H

#include <stdint.h>

static const struct {
    const char *name;
    uint64_t digest;
} golden[] = {
    {"Q4_0", 0x0b09c4966cc1cb25},    {"Q4_1", 0x1c21962b57a72c35},        {"Q5_0", 0x67d381e4d43e0125},
    {"Q5_1", 0x96c40dcc5747c804},    {"Q8_0", 0x329c5ed5ced228e5},        {"Q2_K", 0x82926679ae8c89d9},
    {"Q3_K", 0x4133484ab34c26e5},    {"Q4_K", 0x6a3642ef94b6bbc1},        {"Q5_K", 0x21512cfc88832f3b},
    {"Q6_K", 0xb3ccc918330fcfa1},    {"IQ2_XXS", 0x964550ed8b6922d5},     {"IQ2_XS", 0xa734a4a609ed1529},
    {"IQ3_XXS", 0x536334b36ae549ad}, {"IQ1_S", 0x353d8847eb63d925},       {"IQ4_NL", 0xafe3910fe6571ba5},
    {"IQ3_S", 0xd26c6317729f11c5},   {"IQ2_S", 0x1b8df053d9c91d55},       {"IQ4_XS", 0x7b8733136b1f03b7},
    {"IQ1_M", 0x9d7922bc1429e3a5},   {"TQ1_0", 0xd8548e6848f86325},       {"TQ2_0", 0xba0ca47598210325},
    {"MXFP4", 0x76260ca33b2ec325},   {"NVFP4", 0x4c2b57653a936325},       {"F8_E4M3", 0x08993af4628bb725},
    {"F8_E5M2", 0x00cee2838e6bb725}, {"F8_E4M3FNUZ", 0x4065565af2abb725}, {"F8_E5M2FNUZ", 0x39969815ceabb725},
    {"F8_E8M0", 0x56f9e0582b6bb725},
};

#endif
