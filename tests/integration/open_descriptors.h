// How many descriptors this process has open, to be the same after a test as before.
#ifndef GYRE_TESTS_INTEGRATION_OPEN_DESCRIPTORS_H_
#define GYRE_TESTS_INTEGRATION_OPEN_DESCRIPTORS_H_

#include <dirent.h>

namespace gyre::testing {

inline int OpenDescriptors() {
  int count = 0;
  DIR* directory = opendir("/proc/self/fd");
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

}  // namespace gyre::testing

#endif  // GYRE_TESTS_INTEGRATION_OPEN_DESCRIPTORS_H_
