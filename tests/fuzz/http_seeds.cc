// Writes the seed corpus of http_fuzz.
//
//   http_seeds DIRECTORY
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "tests/fuzz/http_seeds.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: http_seeds DIRECTORY\n");
    return 2;
  }
  const std::filesystem::path directory = argv[1];
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  int number = 0;
  for (const std::string& seed : gyre::HttpSeeds()) {
    std::ofstream file(directory / ("seed-" + std::to_string(number++)), std::ios::binary);
    file << seed;
    if (!file.flush()) {
      std::fprintf(stderr, "http_seeds: cannot write into %s\n", argv[1]);
      return 1;
    }
  }
  return 0;
}
