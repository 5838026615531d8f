/* zip.h - reads members of a zip file: .npz files of NumPy, and files of torch.save.
 *
 * All sizes and positions are checked against the file. Plain values; any thread. */
#ifndef RILLE_RUNTIME_FILE_CODEC_ZIP_H
#define RILLE_RUNTIME_FILE_CODEC_ZIP_H

#include "runtime/file/disk/source.h"

struct zip_member {
    const char *name; /* valid only during the call of visit */
    uint16_t method;
    uint32_t crc;
    /* packed, bytes: sizes before and after unpacking, bytes; local: position of the local header in the file */
    int64_t packed, bytes, local;
};
/* Calls visit for each member in the order of the directory, until a call fails. E_IO: not a zip file, or a member is
 * encrypted or uses an unknown compression. */
typedef int zip_visit(void *arg, const struct zip_member *m);
int zip_each(const struct source *s, zip_visit *visit, void *arg);
/* Returns the position of the bytes of a member that is not compressed. E_IO: the member is compressed. */
int zip_stored(const struct source *s, const struct zip_member *m, int64_t *at);
/* Unpacks the first n bytes of a member. */
int zip_unpack(const struct source *s, const struct zip_member *m, uint8_t *out, int64_t n);
/* Verify the checksum of a member: of its unpacked bytes in memory, or of its uncompressed bytes in the file. */
int zip_check(const struct source *s, const struct zip_member *m, const char *name, const uint8_t *bytes);
int zip_check_stored(const struct source *s, const struct zip_member *m, const char *name);

#endif
