// A state folder as version 0.1.0 left it: its settings still name its checkpoint.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "agent/config/settings.h"
#include "agent/state/checkpoint.h"
#include "bootstrap/router.h"
#include "tests/agent/state/planned_file_ops.h"

namespace starling {
namespace {

TEST(GoldenState, ItsCheckpointIsOfItsSettings) {
  const Folder folder;
  std::filesystem::copy(GOLDEN_DIR "/state-0.1.0", folder.path() + "/state", std::filesystem::copy_options::recursive);
  std::ifstream file(folder.path() + "/state/settings.yaml", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::string skipped;
  const auto loaded = CheckpointStore(folder.path() + "/state/checkpoints", 3)
                          .load_newest(swarm_id_of(text), [&](const std::string& line) { skipped += line; });
  ASSERT_TRUE(loaded) << skipped;
  EXPECT_EQ(loaded->content.meta.steps, 150u);
  EXPECT_EQ(loaded->content.params.size(), parse_agreed_settings(text).swarm.model.dimension);
}

}  // namespace
}  // namespace starling
