// While it lives no thread can be made: each would get a stack that there is no room for.
#ifndef GYRE_TESTS_UNIT_CONCURRENT_NO_MORE_THREADS_H_
#define GYRE_TESTS_UNIT_CONCURRENT_NO_MORE_THREADS_H_

#include <pthread.h>

#include <cstddef>

namespace gyre {

class NoMoreThreads {
 public:
  NoMoreThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t endless;
    pthread_attr_init(&endless);
    pthread_attr_setstacksize(&endless, size_t{1} << 50);
    pthread_setattr_default_np(&endless);
    pthread_attr_destroy(&endless);
  }
  NoMoreThreads(const NoMoreThreads&) = delete;
  NoMoreThreads& operator=(const NoMoreThreads&) = delete;
  ~NoMoreThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_;
};

}  // namespace gyre

#endif  // GYRE_TESTS_UNIT_CONCURRENT_NO_MORE_THREADS_H_
