#include "config/source.h"

#include "base/slice.h"
#include "config/yaml.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ROOM_BYTES ((size_t)WEIR_YAML_BYTES_MAX + 1)

static bool read_all(struct weir_source *source, FILE *stream, struct weir_config_errors *errors)
{
    source->room = weir_allocate(source->allocator, ROOM_BYTES);
    if (source->room == NULL) {
        weir_config_errors_add(errors, 0, 0, "there is not enough memory to read it");
        return false;
    }
    source->text = (struct weir_slice){source->room, fread(source->room, 1, ROOM_BYTES, stream)};
    if (ferror(stream)) {
        weir_config_errors_add(errors, 0, 0, "cannot be read: %s; expected a file",
                               strerror(errno));
        weir_source_close(source);
        return false;
    }
    return true;
}

bool weir_source_open(struct weir_source *source, const char *path,
                      const struct weir_allocator *allocator, struct weir_config_errors *errors)
{
    *source =
        (struct weir_source){.allocator = allocator == NULL ? &weir_allocator_libc : allocator};
    *errors = (struct weir_config_errors){.file = weir_slice_of(path)};
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) {
        weir_config_errors_add(errors, 0, 0,
                               "cannot be opened: %s; expected a file that weir may read",
                               strerror(errno));
        return false;
    }
    bool good = read_all(source, stream, errors);
    fclose(stream);
    return good;
}

void weir_source_close(struct weir_source *source)
{
    weir_release(source->allocator, source->room, ROOM_BYTES);
}
