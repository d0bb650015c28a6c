// AddressSanitizer's marks on memory that belongs to nobody; nothing elsewhere.
#ifndef GYRE_ENGINE_MEMORY_POISON_H_
#define GYRE_ENGINE_MEMORY_POISON_H_

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#endif
#endif
#if !defined(ASAN_POISON_MEMORY_REGION)
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

#endif  // GYRE_ENGINE_MEMORY_POISON_H_
