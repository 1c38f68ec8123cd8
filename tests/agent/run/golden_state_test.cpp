// A state folder as version 0.1.0 left it: its settings still name its checkpoint. Settings as version 0.2.0 wrote
// them: the same config, by old names, begins the same swarm.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

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

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(GoldenSettings, AreThoseOfTheSameConfig) {
  struct Case {
    std::string name;
    uint64_t id;
    std::vector<std::string> overrides;
    size_t old_names;
  };
  const std::string folder = GOLDEN_DIR "/settings-0.2.0/";
  for (const Case& c : {Case{"pairs", 0xdf3e00c7a0271c59, {}, 5},
                        {"updates", 0xb22f2be712dc1ee0, {}, 2},
                        {"gradients", 0x0357fed1b4b574cc, {"--first-norm-max=8"}, 0}}) {
    const std::string text = read(folder + c.name + ".settings.yaml");
    EXPECT_EQ(swarm_id_of(text), c.id) << c.name;
    const AgreedSettings agreed = parse_agreed_settings(text);
    EXPECT_EQ(agreed_settings(agreed.swarm, agreed.genesis_hash_hex), text);
    size_t notices = 0;
    const Config config = load_config(folder + c.name + ".yaml", c.overrides, [&](const std::string&) { ++notices; });
    EXPECT_EQ(agreed_settings(config.swarm, agreed.genesis_hash_hex), text) << "another swarm than with 0.2.0";
    EXPECT_EQ(notices, c.old_names) << c.name;
  }
}

}  // namespace
}  // namespace starling
