// The file that a simulated server sends parts of: what is in it follows from the position.
//
// Threads: one.
#ifndef GYRE_TESTS_SIMULATION_SIM_FILE_H_
#define GYRE_TESTS_SIMULATION_SIM_FILE_H_

#include <cstdint>
#include <string>

#include "engine/fs/fault_injecting_file_system.h"
#include "gtest/gtest.h"

namespace gyre::sim {

inline char FileByte(int64_t position) { return static_cast<char>(position * 131 >> 4); }

inline FileRef MakeFile(FaultInjectingFileSystem& disk, int64_t size_bytes) {
  absl::StatusOr<FileRef> file = disk.Open("/file", OpenMode::kCreate);
  std::string content;
  for (int64_t i = 0; i < size_bytes; ++i) content.push_back(FileByte(i));
  EXPECT_TRUE((*file)->WriteAll(0, content.data(), content.size()).ok());
  return *std::move(file);
}

}  // namespace gyre::sim

#endif  // GYRE_TESTS_SIMULATION_SIM_FILE_H_
