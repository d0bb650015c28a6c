// The text of --help.
#ifndef GYRE_TOOLS_LOAD_HELP_H_
#define GYRE_TOOLS_LOAD_HELP_H_

#include <string>

namespace gyre::load {

std::string HelpText();

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_HELP_H_
