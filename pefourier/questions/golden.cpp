// Compares float32 cosines and sines with golden rows: c++ -std=c++17 golden.cpp && ./a.out golden.json
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

std::vector<double> numbers(const std::string& line) {
  std::vector<double> found;
  char* end;
  for (const char* at = line.c_str(); *at; at = end > at ? end : at + 1)
    if (double x = std::strtod(at, &end); end > at) found.push_back(x);
  return found;
}

int main(int, char** files) {
  std::ifstream file(files[1]);
  std::vector<double> factor, freq, limit;  // limit: 32, absolute, per_radian
  int wrong = 0, seen = 0;
  for (std::string line; std::getline(file, line);) {
    std::vector<double> row = numbers(line);
    if (line.find("\"attention_factor\"") == 0) factor = row;
    if (line.find("\"inv_freq\"") == 0) freq = row;
    if (line.find("\"float32\"") == 0) limit = row;
    if (line.find("{\"position\"") != 0) continue;
    for (size_t i = 0; i < freq.size(); ++i, seen += 2) {
      float angle = float(row[0]) * float(freq[i]), a = float(factor[0]);  // use your engine's
      double off = limit[1] + limit[2] * (i + 2) * row[0] * std::fabs(freq[i]);
      wrong += std::fabs(a * std::cos(angle) - row[1 + i]) > off;
      wrong += std::fabs(a * std::sin(angle) - row[1 + freq.size() + i]) > off;
    }
  }
  std::printf("%d of %d differ\n", wrong, seen);
  return wrong > 0 || seen == 0;
}
