// Writes the seed corpus of decode_fuzz: one well-formed body of every message and version.
//
//   decode_seeds DIRECTORY
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "proto/all_messages.h"
#include "tests/fuzz/decode_check.h"
#include "tests/unit/proto/random_message.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: decode_seeds DIRECTORY\n");
    return 2;
  }
  const std::filesystem::path directory = argv[1];
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  gyre::proto::RandomMessage random(1);
  for (const auto* message : gyre::proto::AllMessages()) {
    for (int16_t version = message->min_version; version <= message->max_version; ++version) {
      const std::string name = absl::StrCat(message->name, "-", version);
      std::ofstream file(directory / name, std::ios::binary);
      file << gyre::proto::DecodeInput(*message, version, random.Encode(*message, version));
      if (!file.flush()) {
        std::fprintf(stderr, "decode_seeds: cannot write %s\n", (directory / name).c_str());
        return 1;
      }
    }
  }
  return 0;
}
