/* Plugins for plugin.rs: filter ID flips bytes with its second parameter and removes some from the end, and misbehaves as
 * HOW says. The declarations are the needed part of HDF5's headers. */
#include <stdlib.h>

typedef struct {
    int version, id;
    unsigned encoder_present, decoder_present;
    const char *name;
    void *can_apply, *set_local;
    size_t (*filter)(unsigned, size_t, const unsigned[], size_t, size_t *, void **);
} H5Z_class2_t;

enum { GOOD, REFUSES, CLAIMS_MORE, NULLS, TOO_LONG, SAYS_NO_SIZE };

static size_t filter(unsigned flags, size_t count, const unsigned values[], size_t bytes, size_t *size, void **buffer)
{
    unsigned char *from = *buffer;
    /* Parameters beyond the last must be zeros, for plugins that do not check their number. */
    if (!(flags & 0x0100) || count != 2 || values[0] != 3 || values[2] != 0 || bytes < values[0] || HOW == REFUSES)
        return 0;
    size_t made = HOW == TOO_LONG ? 2 * bytes : bytes - values[0];
    unsigned char *to = calloc(made, 1);
    for (size_t i = 0; i < made && i < bytes; i++)
        to[i] = from[i] ^ values[1];
    free(from);
    if (HOW == NULLS)
        free(to);
    *buffer = HOW == NULLS ? NULL : to;
    if (HOW != SAYS_NO_SIZE)
        *size = made;
    return HOW == CLAIMS_MORE ? made + 4096 : made;
}

static const H5Z_class2_t CLASS = {VERSION, ID, 1, 1, "turns bytes around", NULL, NULL, filter};

int H5PLget_plugin_type(void)
{
    return TYPE;
}

const void *H5PLget_plugin_info(void)
{
    return &CLASS;
}
