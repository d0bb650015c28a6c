#include "engine/network/request/heap_trim.h"

#include <malloc.h>

namespace gyre {

void HeapTrim::Trim(Continuation* self) {
  static_cast<HeapTrim*>(self)->requested_.store(false, std::memory_order_release);
  malloc_trim(0);
}

}  // namespace gyre
