// gyred's flags by subject, one source file each.
#ifndef GYRE_TOOLS_GYRED_FLAGS_FLAG_GROUPS_H_
#define GYRE_TOOLS_GYRED_FLAGS_FLAG_GROUPS_H_

#include "tools/gyred/flags/flag_registry.h"

namespace gyre {

FlagGroup ListenerFlags();    // listener_flags.cc
FlagGroup StorageFlags();     // storage_flags.cc
FlagGroup TopicFlags();       // topic_flags.cc
FlagGroup ThreadFlags();      // thread_flags.cc
FlagGroup ConnectionFlags();  // connection_flags.cc
FlagGroup QuotaFlags();       // quota_flags.cc
FlagGroup MemoryFlags();      // memory_flags.cc
FlagGroup TransferFlags();    // transfer_flags.cc
FlagGroup AdminFlags();       // admin_flags.cc
FlagGroup ProgramFlags();     // program_flags.cc

}  // namespace gyre

#endif  // GYRE_TOOLS_GYRED_FLAGS_FLAG_GROUPS_H_
