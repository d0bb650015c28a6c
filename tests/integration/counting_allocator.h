// Counts what threads of certain names allocate: the linker takes this program's malloc
// and its kin before glibc's, which they go on to. operator new of libstdc++ comes
// through malloc. Sanitizers have allocators of their own, so there nothing is counted.
//
// Threads: AllocationCount one controlling thread; the counting any.
#ifndef GYRE_TESTS_INTEGRATION_COUNTING_ALLOCATOR_H_
#define GYRE_TESTS_INTEGRATION_COUNTING_ALLOCATOR_H_

#include <cstdint>
#include <string>

namespace gyre::testing {

// False: AllocationCount counts nothing here.
bool CountsAllocations();

// From construction until Stop() each allocation on an I/O thread is counted: one whose
// name begins with "processor-" or "acceptor-" (a name that was given before). At most
// one at a time.
class AllocationCount {
 public:
  AllocationCount();
  ~AllocationCount() { Stop(); }
  AllocationCount(const AllocationCount&) = delete;
  AllocationCount& operator=(const AllocationCount&) = delete;

  // What was counted.
  int64_t Stop();
  // Thread, size and stack of the first few.
  static std::string FirstOnes();
};

}  // namespace gyre::testing

#endif  // GYRE_TESTS_INTEGRATION_COUNTING_ALLOCATOR_H_
