//! Where in the model the gradient is.

use super::scene::{Scene, near};

/// Squares: 25 in layer 0, 36 in layer 1, 4 in layer 3, 25 in the embedding, 9 in the head; 99 in all.
fn model() -> Scene {
    Scene::new()
        .with("grad_norm/layers.0.attn.weight", |_| 3.0)
        .with("grad_norm/layers.0.mlp.weight", |_| 4.0)
        .with("grad_norm/layers.1.attn.weight", |_| 6.0)
        .with("grad_norm/layers.3.attn.weight", |_| 2.0)
        .with("grad_norm/tok_embeddings.weight", |_| 5.0)
        .with("grad_norm/output.weight", |_| 3.0)
}

of_features! {
    layer_concentration {
        near(model().of("layer_concentration"), 36.0 / 99.0);
        let numbered = Scene::new().with("grad_norm/0", |_| 1.0).with("grad_norm/1", |_| 3.0);
        near(numbered.of("layer_concentration"), 0.9);
        assert_eq!(Scene::new().with("grad_norm", |_| 1.0).of("layer_concentration"), None);
    }

    embedding_share {
        near(model().of("embedding_share"), 25.0 / 99.0);
        let numbered = Scene::new().with("grad_norm/0", |_| 1.0).with("grad_norm/1", |_| 3.0);
        assert_eq!(numbered.of("embedding_share"), None, "no embedding among them");
    }

    layer_depth {
        near(model().of("layer_depth"), 1.0 / 3.0);
        let last = Scene::new().with("grad_norm/0", |_| 1.0).with("grad_norm/7", |_| 3.0);
        near(last.of("layer_depth"), 1.0);
        assert_eq!(Scene::new().with("grad_norm", |_| 1.0).of("layer_depth"), None);
    }
}
