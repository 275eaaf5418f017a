//! `InternEvo`: `ckpt.load_ckpt_info` and `data.skip_batches` (rules/SOURCES.md).

use crate::resume::shared::{back, in_force, joined, repeated, whole};
use crate::resume::{Framework, Request, Resume};

pub(super) fn resume(framework: &Framework, request: &Request) -> Resume {
    let name = format!("<checkpoint of {} updates>", request.checkpoint);
    let path = whole(request, "", &name);
    let mut command = format!(
        "ckpt = dict(auto_resume=False, load_ckpt_info=dict(path=\"local:{path}\", content=(\"all\",), \
         ckpt_type=\"internevo\"), ...)"
    );
    let mut caveats = vec![
        "with auto_resume the newest checkpoint of the save folder is taken instead; ckpt_type is internlm in old versions"
            .to_owned(),
    ];
    if let Some(skip) = skip(request) {
        command = format!("{command}\ndata = dict({skip}, ...)");
        caveats.push(
            "batches count from 0 and both ends are skipped: the numbers must be those of step= in its log; the count of \
             batches goes on while skipping, the updates do not"
                .to_owned(),
        );
        repeated(request, 0, &mut caveats);
    }
    Resume {
        base: Some(0),
        survives: "what the data position survives is not known: keep the number of ranks and the batch size".to_owned(),
        can_skip: true,
        caveats,
        ..back(framework, "batches", command)
    }
}

pub(super) fn fragment(_: &Framework, request: &Request) -> Option<String> {
    request.skip?;
    skip(request)
}

fn skip(request: &Request) -> Option<String> {
    let ranges = in_force(request, 0);
    let all = joined(&ranges, ",", |(first, last)| {
        format!("{}-{}", first - 1, last - 1)
    });
    (!ranges.is_empty()).then(|| format!("skip_batches=\"{all}\""))
}

#[cfg(test)]
mod tests {
    use crate::resume::Request;
    use crate::resume::shared::tests::{rollback, skip, told};

    #[test]
    fn a_skip() {
        assert_eq!(
            told("internevo", &skip()),
            r#"ckpt = dict(auto_resume=False, load_ckpt_info=dict(path="local:$CHECKPOINT_DIR/<checkpoint of 1000 updates>", content=("all",), ckpt_type="internevo"), ...)
data = dict(skip_batches="1014-1039", ...)
batches from 0; can skip; what the data position survives is not known: keep the number of ranks and the batch size
- with auto_resume the newest checkpoint of the save folder is taken instead; ckpt_type is internlm in old versions
- batches count from 0 and both ends are skipped: the numbers must be those of step= in its log; the count of batches goes on while skipping, the updates do not
"#
        );
    }

    #[test]
    fn a_rollback_alone() {
        assert_eq!(
            told("internevo", &rollback()),
            r#"ckpt = dict(auto_resume=False, load_ckpt_info=dict(path="local:$CHECKPOINT_DIR/<checkpoint of 1000 updates>", content=("all",), ckpt_type="internevo"), ...)
batches from 0; can skip; what the data position survives is not known: keep the number of ranks and the batch size
- with auto_resume the newest checkpoint of the save folder is taken instead; ckpt_type is internlm in old versions
"#
        );
    }

    #[test]
    fn a_skip_with_earlier_ones() {
        assert_eq!(
            told(
                "internevo",
                &Request {
                    earlier: vec!["904-906".to_owned()],
                    path: Some("/ckpt/1000".to_owned()),
                    ..skip()
                }
            ),
            r#"ckpt = dict(auto_resume=False, load_ckpt_info=dict(path="local:/ckpt/1000", content=("all",), ckpt_type="internevo"), ...)
data = dict(skip_batches="904-906,1014-1039", ...)
batches from 0; can skip; what the data position survives is not known: keep the number of ranks and the batch size
- with auto_resume the newest checkpoint of the save folder is taken instead; ckpt_type is internlm in old versions
- batches count from 0 and both ends are skipped: the numbers must be those of step= in its log; the count of batches goes on while skipping, the updates do not
- earlier skips stay in force and are repeated in the list: 904-906
"#
        );
    }
}
