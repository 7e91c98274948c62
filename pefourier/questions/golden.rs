// Compares float32 cosines and sines with golden rows: rustc golden.rs && ./golden golden.json
fn numbers(line: &str) -> Vec<f64> {
    line.split(|c: char| !"0123456789.+-e".contains(c)).filter_map(|t| t.parse().ok()).collect()
}

fn main() {
    let text = std::fs::read_to_string(std::env::args().nth(1).unwrap()).unwrap();
    let entry = |key: &str| numbers(text.lines().find(|l| l.starts_with(key)).unwrap());
    let (factor, freq) = (entry("\"attention_factor\"")[0] as f32, entry("\"inv_freq\""));
    let limit = entry("\"float32\""); // 32, absolute, per_radian
    let (mut wrong, mut seen) = (0, 0);
    for row in text.lines().filter(|l| l.starts_with("{\"position\"")).map(numbers) {
        for (i, f) in freq.iter().enumerate() {
            let angle = row[0] as f32 * *f as f32; // use your engine's
            let off = limit[1] + limit[2] * (i + 2) as f64 * row[0] * f.abs();
            let (cos, sin) = ((factor * angle.cos()) as f64, (factor * angle.sin()) as f64);
            wrong += ((cos - row[1 + i]).abs() > off) as i32;
            wrong += ((sin - row[1 + freq.len() + i]).abs() > off) as i32;
            seen += 2;
        }
    }
    println!("{wrong} of {seen} differ");
    std::process::exit((wrong > 0 || seen == 0) as i32);
}
