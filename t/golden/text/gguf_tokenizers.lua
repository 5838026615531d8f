-- Made by gguf_tokenizers.py.
return {
  {name = "bpe", prefix = true, ids = {0x8093a14ef10f193f, 0x603baca6995b9b78, 0x01f92086a3625cb0, 0x446f19dc1cf35000, 0x36cf93b75383a292}, texts = {0x044e41ce3b8017cf, 0x0f41d64fc48fc3ca, 0xd2eb056aae496b02, 0x1f08cb98a88211d1, 0xcb7068c97fc1f398}},
  {name = "bpe", prefix = false, ids = {0xc664df5be7f04b90, 0x7754490814974732, 0xb6cc3ac63af0249f, 0xeedb1bdcf043a778, 0xfd9b67edffafbe2b}, texts = {0x24b408e9ad000561, 0xb82ca26fb9a1cf36, 0xd42ee6f8db50010a, 0xdf982240ef2f3549, 0x258bd37c6f7a0f48}},
  {name = "bytes", prefix = true, ids = {0xb71bc4475540f589, 0x45fd47b693254e23, 0xddeae1bec017ac58, 0x878e9bd29f25617b, 0x563cf894772dea03}, texts = {0xb5531683d00f776c, 0x5f915b822cfc1942, 0xbf9e88af0c9aeb84, 0x53e3a0db43c27d78, 0xb87d322e54be4331}},
  {name = "bytes", prefix = false, ids = {0xdf56694211dc8964, 0x84527ff3c6144f1e, 0x0b17b71574a4b574, 0x6565b875fbea5f23, 0xa4fc28e6f62b7d00}, texts = {0xf30d78b77233b630, 0x1391e53b3aaf8bc4, 0x4d20658c5d6358a8, 0x0f937e60be0a9bb2, 0x63a1ac650501b103}},
}
