#include "gflags/gflags.h"
#include "tools/gyred/flags/flag_groups.h"

DEFINE_bool(check_config, false, "Check the flags, start nothing, touch nothing.");

namespace gyre {

FlagGroup ProgramFlags() {
  return {"This program",
          {
              FlagSpec("check_config"),
              FlagSpec("version").Help("Print the version."),
              FlagSpec("help").Help("Print this."),
              FlagSpec("helpfull").Help("Print this and the flags of the libraries."),
              FlagSpec("flagfile").Help("Read flags from a file, one per line."),
          },
          nullptr};
}

}  // namespace gyre
